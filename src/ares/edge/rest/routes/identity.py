"""Routes of tenants, users, tokens, permissions and machines' identities."""

from ares.api.identity import AuthView, BegunLogin, LoginLink, NewToken, OpenedSession, Revoked, WhoAmI
from ares.control.access.machines import Admitted
from ares.control.access.tenants import TenantChange
from ares.control.access.users import UserChange
from ares.edge.rest.answers import JSON, TokenList
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers import identity, machines
from ares.edge.rest.handlers.identity import (
    LoginBody,
    LoginCodeBody,
    OwnTokenBody,
    RoleList,
    TenantBody,
    TenantList,
    TokenBody,
    UserBody,
    UserList,
)
from ares.edge.rest.handlers.machines import CertificateList, JoinBody
from ares.edge.rest.http.operation import PUBLIC, Body, Operation
from ares.model.access import TenantRecord, UserRecord

IDENTITY_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "createTenant", "POST", "/tenants", "tenants:admin", "Make a tenant.", identity.create_tenant,
        {201: (JSON, TenantRecord)}, NoQuery, Body(TenantBody), ("tenant-exists",), tag="access",
    ),
    Operation(
        "listTenants", "GET", "/tenants", "tenants:read", "Tenants, as far as the caller may know them.",
        identity.list_tenants, {200: (JSON, TenantList)}, NoQuery, tag="access",
    ),
    Operation(
        "getTenant", "GET", "/tenants/{name}", "tenants:read", "One tenant.", identity.get_tenant,
        {200: (JSON, TenantRecord)}, NoQuery, tag="access",
    ),
    Operation(
        "updateTenant", "PATCH", "/tenants/{name}", "tenants:admin",
        "Change a tenant. Disabled, none of its credentials is accepted; what runs goes on.", identity.update_tenant,
        {200: (JSON, TenantRecord)}, NoQuery, Body(TenantChange), ("self-lockout",), tag="access",
    ),
    Operation(
        "createUser", "POST", "/users", "users:admin", "Let somebody in.", identity.create_user,
        {201: (JSON, UserRecord)}, NoQuery, Body(UserBody),
        ("escalation", "user-exists", "identity-taken", "no-such-tenant", "access-full"), tag="access",
    ),
    Operation(
        "listUsers", "GET", "/users", "users:read", "The users of the tenant.", identity.list_users,
        {200: (JSON, UserList)}, NoQuery, tag="access",
    ),
    Operation(
        "getUser", "GET", "/users/{user}", "users:read", "One user of the tenant.", identity.get_user,
        {200: (JSON, UserRecord)}, NoQuery, tag="access",
    ),
    Operation(
        "updateUser", "PATCH", "/users/{user}", "users:admin",
        "Change a user. It takes effect on open connections within 5 s.", identity.update_user,
        {200: (JSON, UserRecord)}, NoQuery, Body(UserChange), ("escalation", "self-lockout", "identity-taken"),
        tag="access",
    ),
    Operation(
        "deleteUser", "DELETE", "/users/{user}", "users:admin", "Forget a user; its tokens end with it.",
        identity.delete_user, {200: (JSON, UserRecord)}, NoQuery, None, ("escalation", "self-lockout"), tag="access",
    ),
    Operation(
        "createToken", "POST", "/tokens", "tokens:admin", "Create an API token. Its secret is shown once.",
        identity.create_token, {201: (JSON, NewToken)}, NoQuery, Body(TokenBody),
        ("escalation", "no-such-tenant", "no-such-user", "access-full"), tag="access",
    ),
    Operation(
        "listTokens", "GET", "/tokens", "tokens:admin", "Tokens, without their secrets.", identity.list_tokens,
        {200: (JSON, TokenList)}, NoQuery, tag="access",
    ),
    Operation(
        "revokeToken", "DELETE", "/tokens/{token}", "tokens:admin", "Revoke a token; open streams end within 5 s.",
        identity.revoke_token, {204: ("", None)}, NoQuery, None, ("escalation",), tag="access",
    ),
    Operation(
        "createOwnToken", "POST", "/me/tokens", "self:read", "Create a token for oneself.",
        identity.create_own_token, {201: (JSON, NewToken)}, NoQuery, Body(OwnTokenBody, required=False),
        ("escalation", "no-such-user", "access-full"), tag="access",
    ),
    Operation(
        "listOwnTokens", "GET", "/me/tokens", "self:read", "One's own tokens, without their secrets.",
        identity.list_own_tokens, {200: (JSON, TokenList)}, NoQuery, tag="access",
    ),
    Operation(
        "revokeOwnToken", "DELETE", "/me/tokens/{token}", "self:read", "Revoke a token of one's own.",
        identity.revoke_own_token, {204: ("", None)}, NoQuery, None, ("escalation",), tag="access",
    ),
    Operation(
        "createLoginLink", "POST", "/me/login-links", "self:read",
        "A secret that opens the dashboard in a browser, once and soon.", identity.create_login_link,
        {201: (JSON, LoginLink)}, NoQuery, None, ("escalation",), tag="access",
    ),
    Operation(
        "openBrowserSession", "POST", "/me/browser-session", "self:read",
        "Trade a token, a login or a login link for a session in a cookie.", identity.open_browser_session,
        {201: (JSON, OpenedSession)}, NoQuery, None, ("escalation",), tag="access", takes_links=True,
    ),
    Operation(
        "closeBrowserSession", "DELETE", "/me/browser-session", "self:read", "End the session of this browser.",
        identity.close_browser_session, {204: ("", None)}, NoQuery, tag="access",
    ),
    Operation(
        "listRoles", "GET", "/roles", "self:read", "What each role may do, and how far.", identity.list_roles,
        {200: (JSON, RoleList)}, NoQuery, tag="access",
    ),
    Operation(
        "getAuth", "GET", "/auth", PUBLIC, "How one may log in here.", identity.get_auth, {200: (JSON, AuthView)},
        NoQuery, tag="access",
    ),
    Operation(
        "beginBrowserLogin", "POST", "/auth/logins", PUBLIC,
        "Begin a login of a browser by an identity provider: authorization code with PKCE.",
        identity.begin_browser_login, {200: (JSON, BegunLogin)}, NoQuery, Body(LoginBody), ("bad-origin",),
        tag="access", reads=True,
    ),
    Operation(
        "finishBrowserLogin", "POST", "/auth/sessions", PUBLIC,
        "Trade the provider's code for a session in a cookie, in the browser that began the login.",
        identity.finish_browser_login, {201: (JSON, OpenedSession)}, NoQuery, Body(LoginCodeBody),
        ("bad-origin", "login-failed", "provider-away", "escalation"), tag="access",
    ),
    Operation(
        "whoAmI", "GET", "/whoami", "self:read", "Who this credential is, and what it may do.", identity.whoami,
        {200: (JSON, WhoAmI)}, NoQuery, tag="access",
    ),
)  # fmt: skip


MACHINE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "joinMachine", "POST", "/join", "machines:join", "Trade a join token for a machine's certificate.",
        machines.join, {200: (JSON, Admitted)}, NoQuery, Body(JoinBody), ("no-authority",), tag="nodes",
    ),
    Operation(
        "listCertificates", "GET", "/certificates", "nodes:admit", "Machines' certificates, by machine.",
        machines.list_certificates, {200: (JSON, CertificateList)}, NoQuery, tag="nodes",
    ),
    Operation(
        "revokeNode", "POST", "/nodes/{name}/revoke", "nodes:admit",
        "Take back all that a node proves itself by. Its stream is cut, and its jobs are taken away.",
        machines.revoke_node, {200: (JSON, Revoked)}, NoQuery, tag="nodes",
    ),
    Operation(
        "revokeCluster", "POST", "/clusters/{name}/revoke", "clusters:admin",
        "Take back all that a cluster proves itself by.", machines.revoke_cluster,
        {200: (JSON, Revoked)}, NoQuery,
        tag="nodes",
    ),
)  # fmt: skip
