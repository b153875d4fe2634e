"""The one door that bulk bytes pass on a node: fair between tenants, within their rates, away from what fails."""
