"""The node that the console's tests share is what they think it is, and the console shows it."""

from typing import Any


async def test_the_shared_node_has_scores_of_two_models_and_a_held_job(measured: Any, pressing: Any) -> None:
    jobs = measured.api.get("/v1/jobs").value["items"]
    assert [job["state"] for job in jobs] == ["held", *["done"] * 6]
    sums = [job for job in jobs if job["benchmark"] == "demo_arith" and job["state"] == "done"]
    again, *_, first = sorted(sums, key=lambda job: job["score"]["metrics"]["accuracy"]["value"])
    assert (first["model"], again["model"]) == ("builtin", "rwkv7-g1-0.1b-20260801-ctx4096")
    async with pressing(measured, "j7", "wait for the new rows") as hands:
        await hands.press("question_mark", see="keys of Overview")
