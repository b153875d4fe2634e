// How its place was chosen: every machine that could have taken it, scorer by scorer, and again with other weights.
import { useEffect, useState } from "preact/hooks";
import { call, Problem } from "../api/client";
import type { ReplayAnswer } from "../api/types";
import { Empty, Panel, Rows, Skeleton, Time, Trouble } from "../parts/basic";
import { amount, plural } from "../parts/format";
import { laid, type Reach, reachOf, zero } from "../parts/scores";
import { beyond, turns } from "../parts/turning";
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
      <Empty title="No decision about it is kept.">
        It has not been placed, or long ago, or by another replica.{" "}
        <a href={href(`/jobs/${encodeURIComponent(id)}/why`)}>Why it waits</a>
      </Empty>
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
        {weights ? null : <Turning answer={answer} />}
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

/** What would have turned it: the nearest weights, each to be tried. */
function Turning({ answer }: { answer: ReplayAnswer }) {
  // Of a gang, nodes are chosen together: no single runner-up stands against it.
  if (answer.chosen.length !== 1) return null;
  const found = turns(answer);
  if (!found.runnerUp) return <p class="dim">There was no other node to choose.</p>;
  if (found.turns.length === 0) return <p class="dim">No weight alone would have made {found.runnerUp} the choice.</p>;
  return (
    <>
      <p>
        <b>{found.runnerUp}</b> came second. It would have been chosen with
      </p>
      <ul class="chips">
        {found.turns.slice(0, 3).map((turn) => (
          <li key={turn.scorer}>
            <button type="button" onClick={() => setParams({ weights: `${turn.scorer}:${beyond(turn)}` })}>
              {turn.scorer} {turn.turnsAt > turn.weight ? "above" : "below"} {amount(turn.turnsAt)}{" "}
              <span class="dim">(it was {amount(turn.weight)})</span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

const TONES = 6;

/** A score as what it is made of: what speaks for the node to the right of the line, what speaks against it to the left. */
function Stack(props: { names: readonly string[]; parts: Record<string, number>; reach: Reach }) {
  return (
    <svg class="bar stack" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">
      {laid(props.names, props.parts, props.reach).map((bar) => (
        <rect key={bar.name} class={`tone-${bar.at % TONES}`} x={bar.x} width={bar.width} y="1" height="10" />
      ))}
      <rect class="stack-line" x={zero(props.reach)} width="0.5" height="12" />
    </svg>
  );
}

function Scores({ answer }: { answer: ReplayAnswer }) {
  const names = answer.weights
    .map((weight) => weight.name)
    .filter((name) => answer.nodes.some((node) => name in node.parts));
  const then = new Set(answer.chosen);
  const reach = reachOf(answer.nodes.map((node) => node.parts));
  return (
    <>
      <ul class="legend" aria-label="What scores are made of">
        {names.map((name, at) => (
          <li key={name}>
            <span class={`cell tone-${at % TONES}`} /> {name}
          </li>
        ))}
      </ul>
      <Rows
        label="Scores"
        heads={["Node", "Made of", ...names, "Score", "Then", "Now"]}
        numeric={[...names.map((_, at) => at + 2), names.length + 2]}
      >
        {answer.nodes.map((node) => (
          <tr key={node.node}>
            <td>
              <a href={href(`/nodes/${encodeURIComponent(node.node)}`)}>{node.node}</a>
            </td>
            <td class="stack-cell">
              <Stack names={names} parts={node.parts} reach={reach} />
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
    </>
  );
}
