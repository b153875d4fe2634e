"""Run times and starts over HTTP."""

from tests.integration.api.test_decisions import join, node, placed, scheduling, submit
from tests.integration.api.world import World

MODEL = {
    "trees": [{"feature": [-1], "threshold": [0], "left": [0], "right": [0], "value": [5], "unknownLeft": [0]}],
    "base": 0.0,
    "features": ["limit"],
    "heldOut": {"jobs": 9, "modelMaeS": 1, "modelDistance": 0.1, "historyMaeS": 2, "historyDistance": 0.2},
}


async def test_a_job_is_predicted_and_a_pending_one_has_an_eta(world: World) -> None:
    await join(world, node("n1"))
    async with world.client() as client, scheduling(world):
        held = (await submit(client, resources={"gpus": 4}, expectedRuntimeS=600))["id"]
        await placed(client, held)
        waits = (await submit(client, resources={"gpus": 4}, expectedRuntimeS=60))["id"]
        spec = {"command": ["x"], "resources": {"gpus": 4}, "timeLimitS": 900}
        asked = await client.post("/v1/predictions", json={"spec": spec})
        assert asked.status_code == 200
        said = asked.json()
        assert (said["runtime"]["seconds"], said["runtime"]["basis"]) == (900.0, "its time limit")
        assert said["starts"]["latest"] > said["starts"]["earliest"] >= said["starts"]["computedAt"]
        one = (await client.get(f"/v1/jobs/{waits}")).json()["waiting"]["eta"]
        listed = (await client.get("/v1/jobs")).json()["waiting"][waits]["eta"]
        assert one["latest"] > one["earliest"]
        # Between the two answers the scheduler may have learned more.
        assert listed["latest"] > listed["earliest"]
        report = (await client.get("/v1/predictions")).json()
        assert report["policy"] == {"source": "best", "minSamples": 1, "correction": "limit"}
        assert report["starts"]["first"] == {"given": 0, "within": 0}


async def test_who_runs_the_platform_installs_a_model(world: World) -> None:
    async with world.client() as client, world.client(role="admin") as admin:
        assert (await client.put("/v1/predictions/model", json=MODEL)).status_code == 403
        installed = await admin.put("/v1/predictions/model", json=MODEL)
        assert (installed.status_code, installed.json()["used"]) == (200, True)
        assert (await client.get("/v1/predictions")).json()["model"]["trees"] == 1
        bad = await admin.put("/v1/predictions/model", json={**MODEL, "features": ["moon"]})
        assert (bad.status_code, bad.json()["code"]) == (422, "invalid")
        assert "other features" in bad.json()["detail"]
        assert (await admin.delete("/v1/predictions/model")).status_code == 204
        assert (await admin.delete("/v1/predictions/model")).status_code == 404
