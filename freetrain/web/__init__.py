"""The web page: how the daemon and the machine stand, read-only.

In come ``status.json``, which the daemon publishes after each look, and its database, which is opened read-only;
out comes one HTML document, made in a thread of its own, so that no request waits for it.

``database.py``   what the database tells of the last day
``over_time.py``  pictures over time
``trainings.py``  the table of trainings
``page.py``       the document, with the map of the nodes
``own_page.py``   the page of a user
``api.py``        what programs get
``identity.py``   who asks
``server.py``     keeps all of it fresh, and answers requests
"""
