"""Routes of policies, and of alerts and the channels they go to."""

from ares.api.alerts import SavedChannel, TestAnswer
from ares.api.policies import CheckAnswer, Tried
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers import alerts, policies
from ares.edge.rest.handlers.alerts import AlertList, AlertNote, AlertsQuery, ChannelBody, ChannelList
from ares.edge.rest.handlers.policies import (
    DraftBody,
    PlatformQuery,
    PolicyBody,
    PolicyList,
    PolicyNote,
    RevertBody,
    TrialQuery,
)
from ares.edge.rest.http.operation import Body, Operation
from ares.model.alert import AlertRecord
from ares.model.policy import PolicyRecord

_CHANGE = ("policy-invalid", "policy-conflict", "policies-full")

POLICY_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "listPolicies", "GET", "/policies", "policies:read",
        "Policies that apply to the tenant's jobs: the platform's first.", policies.list_policies,
        {200: (JSON, PolicyList)}, NoQuery, tag="policies",
    ),
    Operation(
        "checkPolicy", "POST", "/policies/check", "policies:read",
        "What is wrong with a policy, and where. Changes nothing.", policies.check_policy,
        {200: (JSON, CheckAnswer)}, NoQuery, Body(DraftBody), tag="policies", reads=True,
    ),
    Operation(
        "tryPolicy", "POST", "/policies/dry-run", "policies:admin",
        "What a policy would have made of recent jobs. Changes nothing.", policies.try_policy,
        {200: (JSON, Tried)}, TrialQuery, Body(DraftBody), ("policy-invalid",), tag="policies", reads=True,
    ),
    Operation(
        "getPolicy", "GET", "/policies/{name}", "policies:read", "One policy.", policies.get_policy,
        {200: (JSON, PolicyRecord)}, PlatformQuery, tag="policies",
    ),
    Operation(
        "putPolicy", "PUT", "/policies/{name}", "policies:admin", "Make or change a policy. In force at once.",
        policies.put_policy, {200: (JSON, PolicyRecord)}, PlatformQuery, Body(PolicyBody), _CHANGE, tag="policies",
    ),
    Operation(
        "deletePolicy", "DELETE", "/policies/{name}", "policies:admin", "Take a policy back, with its versions.",
        policies.delete_policy, {204: ("", None)}, PlatformQuery, tag="policies",
    ),
    Operation(
        "listPolicyVersions", "GET", "/policies/{name}/versions", "policies:read",
        "Versions of a policy, the newest first.", policies.list_policy_versions, {200: (JSON, PolicyList)},
        PlatformQuery, tag="policies",
    ),
    Operation(
        "revertPolicy", "POST", "/policies/{name}/revert", "policies:admin",
        "Put an old version in force again, as a new one.", policies.revert_policy, {200: (JSON, PolicyRecord)},
        PlatformQuery, Body(RevertBody), _CHANGE, tag="policies",
    ),
    Operation(
        "enablePolicy", "POST", "/policies/{name}/enable", "policies:admin", "Apply a policy again.",
        policies.enable_policy, {200: (JSON, PolicyRecord)}, PlatformQuery, Body(PolicyNote, required=False), _CHANGE,
        tag="policies",
    ),
    Operation(
        "disablePolicy", "POST", "/policies/{name}/disable", "policies:admin", "Keep a policy, but do not apply it.",
        policies.disable_policy, {200: (JSON, PolicyRecord)}, PlatformQuery, Body(PolicyNote, required=False),
        _CHANGE, tag="policies",
    ),
    Operation(
        "listAlerts", "GET", "/alerts", "alerts:admin", "Alerts, the newest first.", alerts.list_alerts,
        {200: (JSON, AlertList)}, AlertsQuery, tag="alerts",
    ),
    Operation(
        "acknowledgeAlert", "POST", "/alerts/{name}/acknowledge", "alerts:admin", "Somebody sees to it.",
        alerts.acknowledge_alert, {200: (JSON, AlertRecord)}, PlatformQuery, Body(AlertNote, required=False),
        tag="alerts",
    ),
    Operation(
        "resolveAlert", "POST", "/alerts/{name}/resolve", "alerts:admin", "It is over. If it comes again, it is new.",
        alerts.resolve_alert, {200: (JSON, AlertRecord)}, PlatformQuery, Body(AlertNote, required=False),
        tag="alerts",
    ),
    Operation(
        "listChannels", "GET", "/channels", "alerts:admin", "Where alerts are sent.", alerts.list_channels,
        {200: (JSON, ChannelList)}, PlatformQuery, tag="alerts",
    ),
    Operation(
        "putChannel", "PUT", "/channels/{name}", "alerts:admin", "Make or change a channel.", alerts.put_channel,
        {200: (JSON, SavedChannel)}, PlatformQuery, Body(ChannelBody),
        ("channel-invalid", "channels-full", "secrets-key"), tag="alerts",
    ),
    Operation(
        "deleteChannel", "DELETE", "/channels/{name}", "alerts:admin", "Send nothing there any more.",
        alerts.delete_channel, {204: ("", None)}, PlatformQuery, tag="alerts",
    ),
    Operation(
        "testChannel", "POST", "/channels/{name}/test", "alerts:admin", "Send a test notice, and say if it arrived.",
        alerts.test_channel, {200: (JSON, TestAnswer)}, PlatformQuery, tag="alerts",
    ),
)  # fmt: skip
