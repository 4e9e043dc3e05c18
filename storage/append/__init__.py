"""What may be appended, and what is made of it."""
