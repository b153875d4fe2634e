"""The table of routes: method, path, permission, request and answer of each."""
