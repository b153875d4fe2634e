"""Tenants' quota, lent to clusters: `lender` at the global plane, `allowances` in a cluster."""
