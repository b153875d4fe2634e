"""Routes of the platform: pools, reservations, and actions of operators."""

from ares.api.jobs import SubmitBody
from ares.api.nodes import ConsolidationView, DrainStatus, NodeView
from ares.api.plugins import PluginList
from ares.api.pools import PoolView, ScalingList, ScalingPlan, ScalingView
from ares.api.predictions import JobPrediction, ModelView, PredictionReport
from ares.api.reservations import ReservationView
from ares.api.telemetry.insights import FeedbackBody, InsightList
from ares.api.telemetry.series import SeriesAnswer
from ares.api.telemetry.status import PlatformStatus
from ares.core.forecast.trees import TreeModel
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery, ReasonBody, ReasonQuery, SeriesQuery
from ares.edge.rest.handlers import insights, machines, platform, pools, predictions, profiles, reservations, shadows
from ares.edge.rest.handlers.insights import InsightsQuery
from ares.edge.rest.handlers.machines import ConsolidationBody, TaintQuery
from ares.edge.rest.handlers.pools import PoolList, PoolsQuery
from ares.edge.rest.handlers.profiles import NoteBody, ProfileBody, ProfileList, SettingsBody
from ares.edge.rest.handlers.reservations import ExtendBody, ReservationBody, ReservationList, ReservationsQuery
from ares.edge.rest.handlers.shadows import ShadowBody
from ares.edge.rest.http.operation import Body, Operation
from ares.model.node import Taint
from ares.model.profile import ProfileRecord, ShadowRecord
from ares.model.telemetry.insight import InsightRecord

_CHANGE = ("profile-invalid", "profile-conflict")

OPERATOR_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "getProfile", "GET", "/profile", "nodes:read", "The profile scheduling goes by.", profiles.get_profile,
        {200: (JSON, ProfileRecord)}, NoQuery, tag="profile",
    ),
    Operation(
        "listProfiles", "GET", "/profiles", "nodes:read", "Versions of the profile, the newest first.",
        profiles.list_profiles, {200: (JSON, ProfileList)}, NoQuery, tag="profile",
    ),
    Operation(
        "putProfile", "PUT", "/profile", "profile:admin", "Replace the profile. Takes effect at once, everywhere.",
        profiles.put_profile, {200: (JSON, ProfileRecord)}, NoQuery, Body(ProfileBody), _CHANGE, tag="profile",
    ),
    Operation(
        "patchProfile", "PATCH", "/profile", "profile:admin", "Change single settings of the profile.",
        profiles.patch_profile, {200: (JSON, ProfileRecord)}, NoQuery, Body(SettingsBody), _CHANGE, tag="profile",
    ),
    Operation(
        "revertProfile", "POST", "/profiles/{version}/revert", "profile:admin",
        "Put an old version in force again, as a new one. 0 is what Ares comes with.",
        profiles.revert_profile, {200: (JSON, ProfileRecord)}, NoQuery, Body(NoteBody, required=False), _CHANGE,
        tag="profile",
    ),
    Operation(
        "getShadow", "GET", "/profile/shadow", "profile:admin",
        "The profile that is tried without being in force, and what was found.", shadows.get_shadow,
        {200: (JSON, ShadowRecord)}, NoQuery, problems=("not-found",), tag="profile",
    ),
    Operation(
        "putShadow", "PUT", "/profile/shadow", "profile:admin",
        "Try a profile on the jobs that come, in place of the one tried before. Nothing comes into force by it.",
        shadows.put_shadow, {200: (JSON, ShadowRecord)}, NoQuery, Body(ShadowBody), _CHANGE, tag="profile",
    ),
    Operation(
        "promoteShadow", "POST", "/profile/shadow/promote", "profile:admin",
        "Put the shadow in force. It is judged on, and taken back by itself if it is worse.",
        shadows.promote_shadow, {200: (JSON, ProfileRecord)}, NoQuery, Body(NoteBody, required=False),
        (*_CHANGE, "not-found"), tag="profile",
    ),
    Operation(
        "deleteShadow", "DELETE", "/profile/shadow", "profile:admin", "Try it no longer. What is in force stays.",
        shadows.delete_shadow, {200: (JSON, ShadowRecord)}, NoQuery, problems=("not-found",), tag="profile",
    ),
    Operation(
        "getStatus", "GET", "/status", "metrics:read",
        "Is the platform well: leader, replicas, store, disks, machines, certificates, backups, each with its age.",
        platform.get_status, {200: (JSON, PlatformStatus)}, NoQuery, tag="server",
    ),
    Operation(
        "getSeries", "GET", "/series", "metrics:read",
        "How numbers of the platform went over time, as this replica remembers them.", platform.get_series,
        {200: (JSON, SeriesAnswer)}, SeriesQuery, tag="server",
    ),
    Operation(
        "listInsights", "GET", "/insights", "metrics:read",
        "What is odd in the platform's numbers, and what is to be expected of demand.", insights.list_insights,
        {200: (JSON, InsightList)}, InsightsQuery, tag="server",
    ),
    Operation(
        "judgeInsight", "POST", "/insights/{token}/feedback", "profile:admin",
        "Say what an insight was: no anomaly, or useful. Both are kept.", insights.judge_insight,
        {200: (JSON, InsightRecord)}, NoQuery, Body(FeedbackBody), tag="server",
    ),
    Operation(
        "listPlugins", "GET", "/plugins", "nodes:read", "What a profile can name, and where it comes from.",
        profiles.list_plugins, {200: (JSON, PluginList)}, NoQuery, tag="profile",
    ),
    Operation(
        "drainNode", "POST", "/nodes/{name}/drain", "nodes:admit", "Move what runs on a node away from it.",
        machines.drain_node, {200: (JSON, DrainStatus)}, NoQuery, Body(ReasonBody, required=False), tag="nodes",
    ),
    Operation(
        "getDrain", "GET", "/nodes/{name}/drain", "nodes:read", "How far a drain is.", machines.get_drain,
        {200: (JSON, DrainStatus)}, NoQuery, tag="nodes",
    ),
    Operation(
        "undrainNode", "POST", "/nodes/{name}/undrain", "nodes:admit", "Let work onto a drained node again.",
        machines.undrain_node, {200: (JSON, NodeView)}, NoQuery, tag="nodes",
    ),
    Operation(
        "taintNode", "POST", "/nodes/{name}/taints", "nodes:admit", "Keep jobs away that do not tolerate it.",
        machines.taint_node, {200: (JSON, NodeView)}, NoQuery, Body(Taint), tag="nodes",
    ),
    Operation(
        "untaintNode", "DELETE", "/nodes/{name}/taints", "nodes:admit", "Take away the taints of a key.",
        machines.untaint_node, {200: (JSON, NodeView)}, TaintQuery, tag="nodes",
    ),
    Operation(
        "removeNode", "DELETE", "/nodes/{name}", "nodes:admit", "Forget a node that is gone for good.",
        machines.remove_node, {200: (JSON, NodeView)}, NoQuery, problems=("node-in-use",), tag="nodes",
    ),
    Operation(
        "listNodePools", "GET", "/nodepools", "nodes:read",
        "Pools: what they have, who holds it now and later, and when jobs of some size would start there.",
        pools.list_pools, {200: (JSON, PoolList)}, PoolsQuery, tag="nodes",
    ),
    Operation(
        "getNodePool", "GET", "/nodepools/{name}", "nodes:read", "One pool.", pools.get_pool,
        {200: (JSON, PoolView)}, PoolsQuery, tag="nodes",
    ),
    Operation(
        "listScaling", "GET", "/autoscale", "nodes:read", "Pools that grow and shrink by themselves.",
        pools.list_scaling, {200: (JSON, ScalingList)}, NoQuery, tag="nodes",
    ),
    Operation(
        "planScaling", "GET", "/autoscale/plan", "nodes:admit",
        "Machines that would be bought now, and the jobs that would start on them. Changes nothing.",
        pools.plan_scaling, {200: (JSON, ScalingPlan)}, NoQuery, tag="nodes",
    ),
    Operation(
        "getScaling", "GET", "/autoscale/pools/{name}", "nodes:read", "One such pool, and machines bought for it.",
        pools.get_scaling, {200: (JSON, ScalingView)}, NoQuery, tag="nodes",
    ),
    Operation(
        "enableScaling", "POST", "/autoscale/pools/{name}/enable", "nodes:admit", "Let machines be bought for a pool.",
        pools.enable_scaling, {200: (JSON, ScalingView)}, NoQuery, tag="nodes",
    ),
    Operation(
        "disableScaling", "POST", "/autoscale/pools/{name}/disable", "nodes:admit",
        "Buy no machines for a pool any more. Those it has are given back when they are idle.",
        pools.disable_scaling, {200: (JSON, ScalingView)}, NoQuery, tag="nodes",
    ),
    Operation(
        "listReservations", "GET", "/reservations", "nodes:read", "Room that is booked ahead, by start.",
        reservations.list_reservations, {200: (JSON, ReservationList)}, ReservationsQuery, tag="reservations",
    ),
    Operation(
        "createReservation", "POST", "/reservations", "reservations:admin", "Book room ahead.",
        reservations.create_reservation, {201: (JSON, ReservationView)}, NoQuery, Body(ReservationBody),
        ("reservation-invalid", "reservation-no-room", "reservation-conflict"), tag="reservations",
    ),
    Operation(
        "getReservation", "GET", "/reservations/{name}", "nodes:read", "One reservation of the tenant.",
        reservations.get_reservation, {200: (JSON, ReservationView)}, NoQuery, tag="reservations",
    ),
    Operation(
        "extendReservation", "POST", "/reservations/{name}/extend", "reservations:admin", "Let it last longer.",
        reservations.extend_reservation, {200: (JSON, ReservationView)}, NoQuery, Body(ExtendBody),
        ("reservation-no-room", "reservation-conflict"), tag="reservations",
    ),
    Operation(
        "cancelReservation", "DELETE", "/reservations/{name}", "reservations:admin",
        "Give its room back. What runs in it goes on.", reservations.cancel_reservation,
        {200: (JSON, ReservationView)}, ReasonQuery, problems=("reservation-conflict",), tag="reservations",
    ),
    Operation(
        "getPredictions", "GET", "/predictions", "jobs:read",
        "How good predictions of run times and starts have been.", predictions.get_predictions,
        {200: (JSON, PredictionReport)}, NoQuery, tag="predictions",
    ),
    Operation(
        "predictJob", "POST", "/predictions", "jobs:read",
        "How long a job would run and when it would start. Changes nothing.", predictions.predict_job,
        {200: (JSON, JobPrediction)}, NoQuery, Body(SubmitBody), ("tenant-mismatch",), tag="predictions", reads=True,
    ),
    Operation(
        "putPredictionModel", "PUT", "/predictions/model", "profile:admin", "Install a trained model of run times.",
        predictions.put_model, {200: (JSON, ModelView)}, NoQuery, Body(TreeModel), tag="predictions",
    ),
    Operation(
        "deletePredictionModel", "DELETE", "/predictions/model", "profile:admin", "Go by like jobs' runs again.",
        predictions.delete_model, {204: ("", None)}, NoQuery, None, ("not-found",), tag="predictions",
    ),
    Operation(
        "consolidate", "POST", "/consolidations", "nodes:admit",
        "Plan moves of running jobs that make room, or carry such a plan out.",
        machines.consolidate, {200: (JSON, ConsolidationView)}, NoQuery, Body(ConsolidationBody), tag="nodes",
    ),
)  # fmt: skip
