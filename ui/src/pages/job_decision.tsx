// How its place was chosen: every machine that could have taken it, scorer by scorer, and again with other weights.
import { useEffect, useState } from "preact/hooks";
import { call, Problem } from "../api/client";
import type { ReplayAnswer } from "../api/types";
import { Empty, Panel, Rows, Skeleton, Time, Trouble } from "../parts/basic";
import { plural } from "../parts/format";
import { href, params, setParams } from "../state/route";

export function DecisionTab({ id }: { id: string }) {
  const [answer, setAnswer] = useState<ReplayAnswer | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const weights = params.value.get("weights") ?? "";
  useEffect(() => {
    const aborting = new AbortController();
    const set = Object.fromEntries(
      weights
        .split(",")
        .filter(Boolean)
        .map((each) => each.split(":"))
        .map(([name, value]) => [name, Number(value)]),
    );
    call<ReplayAnswer>(
      "POST",
      `/v1/decisions/${encodeURIComponent(id)}/replay`,
      { weights: set },
      { signal: aborting.signal },
    )
      .then((found) => {
        setAnswer(found);
        setProblem(undefined);
      })
      .catch((error: unknown) => {
        if (error instanceof Problem) setProblem(error);
      });
    return () => aborting.abort();
  }, [id, weights]);
  if (problem?.status === 404)
    return (
      <Empty title="No decision about it is kept.">It has not been placed, or long ago, or by another replica.</Empty>
    );
  if (problem && !answer) return <Trouble problem={problem} />;
  if (!answer) return <Skeleton rows={8} />;
  return (
    <>
      {problem ? <Trouble problem={problem} /> : null}
      <Panel
        title="The decision"
        more={
          <span class="dim">
            profile {answer.profileVersion}, <Time at={answer.at} />
          </span>
        }
      >
        <p class="lead">
          Chosen: {answer.chosen.join(", ") || "nothing"}.{" "}
          {weights ? (
            <span class={answer.same ? "" : "warn-text"}>
              With these weights: {answer.same ? "the same." : `${answer.chosenAgain.join(", ") || "nothing"} instead.`}
            </span>
          ) : null}
        </p>
        <p class="dim">
          {plural(answer.passing, "node")} could have taken it. Change a weight to see what would have been chosen;
          nothing is changed by it.
        </p>
        <Weights answer={answer} chosen={weights} />
      </Panel>
      <Panel title="Nodes, the best first">
        <Scores answer={answer} />
      </Panel>
    </>
  );
}

function Weights({ answer, chosen }: { answer: ReplayAnswer; chosen: string }) {
  const set = (name: string, value: string) => {
    const others = chosen.split(",").filter((each) => each && !each.startsWith(`${name}:`));
    setParams({ weights: [...others, ...(value === "" ? [] : [`${name}:${Math.max(0, Number(value))}`])].join(",") });
  };
  return (
    <div class="texts weights">
      {answer.weights.map((weight) => (
        <label key={weight.name} class="choice">
          {weight.name}
          <input
            type="number"
            min="0"
            max="1000000"
            step="any"
            value={weight.weight}
            onChange={(event) => set(weight.name, event.currentTarget.value)}
          />
        </label>
      ))}
      {chosen ? (
        <button type="button" class="quiet" onClick={() => setParams({ weights: "" })}>
          As it was
        </button>
      ) : null}
    </div>
  );
}

function Scores({ answer }: { answer: ReplayAnswer }) {
  const names = answer.weights
    .map((weight) => weight.name)
    .filter((name) => answer.nodes.some((node) => name in node.parts));
  const then = new Set(answer.chosen);
  return (
    <Rows
      label="Scores"
      heads={["Node", ...names, "Score", "Then", "Now"]}
      numeric={[...names.map((_, at) => at + 1), names.length + 1]}
    >
      {answer.nodes.map((node) => (
        <tr key={node.node}>
          <td>
            <a href={href(`/nodes/${encodeURIComponent(node.node)}`)}>{node.node}</a>
          </td>
          {names.map((name) => (
            <td key={name} class="num">
              {(node.parts[name] ?? 0).toFixed(2)}
            </td>
          ))}
          <td class="num strong">{node.score.toFixed(2)}</td>
          <td>{then.has(node.node) ? "✓ chosen" : ""}</td>
          <td>{node.ranks > 0 ? "✓ chosen" : ""}</td>
        </tr>
      ))}
    </Rows>
  );
}
