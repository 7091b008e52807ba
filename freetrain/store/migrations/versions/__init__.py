"""One file per schema, numbered."""
