"""The schemas, a file for each, numbered: ``upgrade`` leads there from the one before.

``tests/store/released`` holds stores as released versions wrote them; all of them must be readable after
migration.
"""
