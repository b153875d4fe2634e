"""Governance: quotas, budgets, policies, secrets, the audit log and alerts."""
