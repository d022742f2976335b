import os

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")  # no window

# A plain run tries the same examples each time and never fails for a slow machine; "make test-slow"
# goes further.
settings.register_profile("plain", max_examples=30, derandomize=True, deadline=None)
settings.register_profile("slow", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile("plain")
