"""The pages: each module has the functions that answer requests for one kind of them."""
