"""The dashboard: pages for a browser, built from `ui/` and served as they are."""
