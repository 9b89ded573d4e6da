"""Files that another system leaves in the folders it shows or copies to; they are passed over."""

_NAMES = {
    *(".ds_store", ".localized", ".fseventsd", ".spotlight-v100", ".trashes", ".temporaryitems"),
    *("__macosx", "icon\r"),
    *("thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information"),
    *(".directory", "lost+found"),
}


def is_foreign(name: str) -> bool:
    """Return whether a system left the file or folder: macOS, Windows or a Linux desktop.

    macOS leaves `._NAME` beside each file on foreign disks, and `.DS_Store`; Windows `Thumbs.db`
    and `desktop.ini`.
    """
    return name.startswith(("._", ".nfs", ".Trash")) or name.lower() in _NAMES


def is_hidden(name: str) -> bool:
    """Return whether a file is foreign or hidden, as the unfinished files of a copy are."""
    return name.startswith(".") or is_foreign(name)
