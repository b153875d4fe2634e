"""HTTP below the routes: connections, limits, authentication, problems and the OpenAPI document."""
