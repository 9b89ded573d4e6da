"""HTML pages and charts in one file each."""
