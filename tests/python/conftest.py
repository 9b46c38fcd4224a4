"""What all tests share: fewer hypothesis examples and no deadline, since compiles take their time."""

import os

from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=100, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
