// What it wrote, as it comes. Text is only ever text: colours by our own parser, nothing else is obeyed.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, getText, Problem, query } from "../api/client";
import type { JobDetail } from "../api/types";
import { parse } from "../parts/ansi";
import { Empty, Skeleton, Trouble } from "../parts/basic";
import { count } from "../parts/format";
import { onChange } from "../state/live";
import { params, setParams } from "../state/route";
import { may } from "../state/session";

const LINES = 5000;
const LINE_CHARS = 4000;
const ROW = 18;
const AGAIN_MS = 2000;
const OVER = new Set(["SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN", "SKIPPED"]);

interface Text {
  lines: string[];
  problem: Problem | undefined;
  loading: boolean;
}

export function LogsTab({ id, job }: { id: string; job: JobDetail | undefined }) {
  const attempt = params.value.get("attempt") ?? "";
  const rank = params.value.get("rank") ?? "";
  const stream = params.value.get("stream") ?? "";
  const text = useLog(id, { attempt, rank, stream }, job !== undefined && !OVER.has(job.state.phase));
  const attempts = job?.state.attempt ?? 0;
  const ranks = job?.spec.gang?.ranks ?? 1;
  if (!may("logs:read")) return <Empty title="Your role does not read what jobs write." />;
  return (
    <div class="fill logs-page">
      <div class="texts">
        {attempts > 1 ? (
          <Choice
            label="Attempt"
            value={attempt}
            none={`latest (${attempts})`}
            all={Array.from({ length: Math.min(attempts, 200) }, (_, at) => String(attempts - at))}
            set={(value) => setParams({ attempt: value })}
          />
        ) : null}
        {ranks > 1 ? (
          <Choice
            label="Rank"
            value={rank}
            none="0"
            all={Array.from({ length: Math.min(ranks, 512) }, (_, at) => String(at))}
            set={(value) => setParams({ rank: value })}
          />
        ) : null}
        <Choice
          label="Stream"
          value={stream}
          none="both"
          all={["stdout", "stderr"]}
          set={(value) => setParams({ stream: value })}
        />
        <Find id={id} where={{ attempt, rank, stream }} />
        <a
          href={`/v1/jobs/${encodeURIComponent(id)}/logs${query({ attempt, rank, stream })}`}
          target="_blank"
          rel="noreferrer"
        >
          All of it
        </a>
      </div>
      <Log text={text} job={job} />
    </div>
  );
}

function Choice(props: {
  label: string;
  value: string;
  none: string;
  all: readonly string[];
  set: (value: string) => void;
}) {
  return (
    <label class="choice">
      {props.label}
      <select value={props.value} onChange={(event) => props.set(event.currentTarget.value)}>
        <option value="">{props.none}</option>
        {props.all.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  );
}

interface Which {
  attempt: string;
  rank: string;
  stream: string;
}

/** The end of the log, asked for again while the job runs. */
function useLog(id: string, which: Which, goesOn: boolean): Text {
  const [text, setText] = useState<Text>({ lines: [], problem: undefined, loading: true });
  const at = `/v1/jobs/${encodeURIComponent(id)}/logs${query({ tail: LINES, ...which })}`;
  useEffect(() => {
    const aborting = new AbortController();
    let timer = 0;
    let asking = false;
    const ask = async () => {
      if (asking) return;
      asking = true;
      try {
        const whole = await getText(at, aborting.signal);
        const lines = whole.split("\n");
        if (lines[lines.length - 1] === "") lines.pop();
        setText({
          lines: lines.map((line) =>
            line.length > LINE_CHARS
              ? `${line.slice(0, LINE_CHARS)} … ${count(line.length - LINE_CHARS)} more characters`
              : line,
          ),
          problem: undefined,
          loading: false,
        });
      } catch (error) {
        if (!(error instanceof Problem)) return;
        setText((before) => ({ ...before, problem: error, loading: false }));
      }
      asking = false;
      if (goesOn) timer = window.setTimeout(ask, AGAIN_MS);
    };
    const unhear = onChange((changed) => {
      if (changed.has(id)) void ask();
    });
    void ask();
    return () => {
      aborting.abort();
      unhear();
      window.clearTimeout(timer);
    };
  }, [at, goesOn, id]);
  return text;
}

function Log({ text, job }: { text: Text; job: JobDetail | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [follow, setFollow] = useState(true);
  const { lines } = text;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    setHeight(element.clientHeight);
    if (follow) element.scrollTop = element.scrollHeight;
  }, [lines, follow]);
  if (text.loading) return <Skeleton rows={12} />;
  if (text.problem && lines.length === 0) {
    if (text.problem.status === 404) return <Empty title="There is no output: no attempt of it has begun." />;
    return <Trouble problem={text.problem} />;
  }
  if (lines.length === 0)
    return (
      <Empty
        title={
          job && job.state.attempt > 0 ? "It has written nothing." : "It has not started, so it has written nothing."
        }
      />
    );
  const first = Math.max(0, Math.floor(top / ROW) - 20);
  const last = Math.min(lines.length, Math.ceil((top + height) / ROW) + 20);
  return (
    <>
      <div
        ref={box}
        class="log"
        role="log"
        aria-label="Output"
        aria-live="off"
        tabIndex={0}
        onScroll={(event) => {
          const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
          setTop(scrollTop);
          setFollow(scrollTop + clientHeight >= scrollHeight - ROW);
        }}
      >
        <div class="log-all" style={{ height: `${lines.length * ROW}px` }}>
          <div class="log-seen" style={{ transform: `translateY(${first * ROW}px)` }}>
            {lines.slice(first, last).map((line, offset) => (
              <div key={first + offset} class="log-line">
                {parse(line).map((span, at) => (
                  <span key={at} class={span.style}>
                    {span.text}
                  </span>
                ))}
              </div>
            ))}
          </div>
        </div>
      </div>
      <div class="vfoot">
        {lines.length >= LINES ? `The last ${count(LINES)} lines.` : `${count(lines.length)} lines.`}{" "}
        <span class="dim">{follow ? "Follows the end." : "Scroll to the end to follow it."}</span>
      </div>
    </>
  );
}

function Find({ id, where }: { id: string; where: Which }) {
  const [wanted, setWanted] = useState("");
  const [found, setFound] = useState<{ offset: number; text: string }[] | undefined>();
  const look = async (event: Event) => {
    event.preventDefault();
    if (!wanted) return;
    try {
      const answer = await get<{ lines: { offset: number; text: string }[] }>(
        `/v1/jobs/${encodeURIComponent(id)}/logs/search${query({ text: wanted, limit: 100, ...where })}`,
      );
      setFound(answer.lines);
    } catch {
      setFound([]);
    }
  };
  return (
    <form class="find" onSubmit={look}>
      <input
        type="search"
        aria-label="Find in the output"
        placeholder="Find in the output"
        maxLength={256}
        value={wanted}
        onInput={(event) => {
          setWanted(event.currentTarget.value);
          setFound(undefined);
        }}
      />
      {found ? (
        <div class="found" role="status">
          {found.length === 0 ? "Nowhere." : `${count(found.length)}${found.length === 100 ? " or more" : ""} lines:`}
          <ul class="plain mono small">
            {found.slice(0, 20).map((line) => (
              <li key={line.offset}>
                {parse(line.text)
                  .map((span) => span.text)
                  .join("")
                  .slice(0, 300)}
              </li>
            ))}
          </ul>
        </div>
      ) : null}
    </form>
  );
}
