"""As from a file server that does not answer."""

import time

while True:
    time.sleep(3600.0)
