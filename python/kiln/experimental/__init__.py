"""Arrays that compute at once, their placement over several devices, and callables compiled from functions over
them."""
