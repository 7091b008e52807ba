"""The web page: how the daemon and the machine stand, read-only.

In come ``status.json``, which the daemon publishes after each look, and its database, which is opened read-only;
out comes one HTML document, made in a thread of its own, so that no request waits for it.

``facts.py``      how the daemon stands, and what its database tells of the last day
``over_time.py``  pictures over time
``api.py``        what programs get: documents, and their description
``page.py``       the document, with the map of the nodes and the table of trainings, and the page of a user
``identity.py``   who asks
``server.py``     keeps all of it fresh, and answers requests
"""
