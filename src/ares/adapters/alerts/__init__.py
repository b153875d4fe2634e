"""Ways by which alerts reach people."""
