"""What must stay as it is while the code around it moves: `make oracles` computes it anew and compares it with
`recorded/`.

No name of a module, class or attribute goes into a record: renaming one changes nothing here, but where the platform
itself shows the name (in the OpenAPI document, for one).
"""
