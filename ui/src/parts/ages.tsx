// Of a global plane: how old what is known of each cluster is, beside the figures that are made of it.
import type { ClusterAge } from "../api/types";
import { href } from "../state/route";
import { Panel, Rows, Time } from "./basic";
import { duration } from "./format";

/** Since when it is silent: by its last report, or by its last figures where this server has heard none. */
export function silentSince(age: ClusterAge, now: number): number | null {
  if (!age.silent) return null;
  return age.heardS === null ? age.toldAt : now - age.heardS;
}

/** A line for each cluster that is silent: what is shown of it is not of now. Nothing where all are there. */
export function Silences({ clusters, now }: { clusters: readonly ClusterAge[]; now: number }) {
  const away = clusters.filter((age) => age.silent);
  if (away.length === 0) return null;
  return (
    <div class="notice warn" role="status">
      {away.map((age) => {
        const since = silentSince(age, now);
        return (
          <p key={age.cluster}>
            <b>
              ⚠ <a href={href(`/clusters/${encodeURIComponent(age.cluster)}`)}>{age.cluster}</a> is silent
            </b>
            {since === null ? ". " : ` for ${duration(now - since)}, since `}
            {since === null ? null : <Time at={since} />}
            {age.toldAt ? (
              <>
                . Its figures are as of <Time at={age.toldAt} />; what it does meanwhile it tells when it is back.
              </>
            ) : (
              " It has told no figures yet: nothing of it is counted."
            )}
          </p>
        );
      })}
    </div>
  );
}

/** All of them, with how old each one's figures are. */
export function Ages({ clusters, now }: { clusters: readonly ClusterAge[]; now: number }) {
  if (clusters.length === 0) return null;
  return (
    <Panel title="Where the figures come from" more={<span class="dim">told by each cluster, from its books</span>}>
      <Rows
        label="Age of the figures"
        heads={["Cluster", "State", "Figures as of", "Days closed up to", "Incarnation"]}
        numeric={[4]}
      >
        {clusters.map((age) => (
          <tr key={age.cluster}>
            <td>
              <a href={href(`/clusters/${encodeURIComponent(age.cluster)}`)}>{age.cluster}</a>
            </td>
            <td>
              {age.silent ? (
                <span class="tag bad">✕ silent</span>
              ) : (
                <span class={age.state === "ACTIVE" ? "tag good" : "tag operator"}>{age.state.toLowerCase()}</span>
              )}
            </td>
            <td>{age.toldAt ? `${duration(Math.max(0, now - age.toldAt))} ago` : "none yet"}</td>
            <td>{age.closedDay || "none yet"}</td>
            <td class="num">{age.incarnation}</td>
          </tr>
        ))}
      </Rows>
    </Panel>
  );
}
