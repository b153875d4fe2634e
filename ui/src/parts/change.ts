// The smallest change as an update of the job: "resources.gpus" becomes {resources: {gpus}}.

const TOP = new Set(["priority"]);
const RESOURCES = new Set(["gpus", "cpuMilli", "memoryMib", "gpuMilli", "gpuMemoryMib", "gpuModel"]);

/** What to send; undefined where a job that has been submitted cannot be changed so. */
export function updateOf(fields: Record<string, unknown>): Record<string, unknown> | undefined {
  const update: Record<string, unknown> = {};
  const resources: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    const [part = "", below = "", ...more] = name.split(".");
    if (part === "resources" && RESOURCES.has(below) && more.length === 0) resources[below] = value;
    else if (TOP.has(part) && !below) update[part] = value;
    else return undefined;
  }
  if (Object.keys(resources).length > 0) update.resources = resources;
  return update;
}
