"""Each operator on trial by itself: it gets the inputs that it had in the run, and is judged by what it made of them."""
