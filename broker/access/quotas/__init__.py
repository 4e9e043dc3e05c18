"""How much one client may take: quotas of users, clients and addresses, and what becomes of who takes more."""
