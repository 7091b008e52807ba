"""The web page: the state of the daemon and the machine, read-only.

In come ``status.json``, which the daemon publishes after each look, and its database, which is opened read-only;
out comes one HTML document, made in a thread of its own, so that no request waits for it.

``facts.py``      the state of the daemon, and the last day's history in its database
``over_time.py``  pictures over time
``api.py``        documents for programs, and their description
``page.py``       the document, with the map of the nodes and the table of trainings, and the page of a user
``identity.py``   the users of requests
``server.py``     keeps all of it fresh, and answers requests
"""
