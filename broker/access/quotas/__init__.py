"""Quotas of users, clients and addresses. Clients above a quota are throttled."""
