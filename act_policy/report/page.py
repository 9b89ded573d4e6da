"""Pages from the templates in templates/ and the style in style.css.

Each page is one file with its style, images, charts and videos, and without a script. Templates
escape every value but `Markup`. A page loads nothing from elsewhere; its content policy forbids it.
"""

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from act_policy.errors import writing
from act_policy.system.atomic import atomic_file

FOLDER = Path(__file__).parent


def render_page(
    template: str, title: str, refresh_seconds: int | None = None, **values: Any
) -> str:
    """Fill in a template of a page.

    Args:
        template: file name in templates/, without .html.j2.
        title: of the page.
        refresh_seconds: interval at which the browser reads the page again; None reads it once.
        values: what the template names.
    """
    filled = load_template(template)
    return filled.render(title=title, refresh_seconds=refresh_seconds, **values)


@cache
def load_template(name: str) -> jinja2.Template:
    """Read a template by its file name in templates/, without .html.j2."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([FOLDER / "templates", FOLDER]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{name}.html.j2")


def write_page(path: Path, html: str) -> None:
    """Write a page atomically: readers find either the old file or the new one, whole.

    Raises:
        UserError: the file cannot be written.
    """
    with writing(path), atomic_file(path) as file:
        file.write(html.encode())
