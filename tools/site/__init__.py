"""The documentation's site: pages of docs/ as they are, and reference pages made of the code when it is built."""
