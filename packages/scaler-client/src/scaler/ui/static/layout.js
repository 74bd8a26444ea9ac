// Where the tasks of a graph stand, which of them are drawn as one box, and which of them decide how long it takes.
export const [TASK, NAME, STATE, NEEDS, KEY] = [0, 1, 2, 3, 4];
export const EDGE = 8;

// A layer is one more than the highest of what a task depends on; a task stands behind all that it depends on.
export function layersOf(nodes) {
  const layer = [];
  nodes.forEach((node, index) => {
    layer[index] = node[NEEDS].reduce((most, one) => (one < index ? Math.max(most, layer[one] + 1) : most), 0);
  });
  return layer;
}

// Boxes to draw: {key, name, layer, members, isGroup, needs}. Tasks of one function in one layer are one box, unless
// there is only one or it is among `opened`; of an opened one `most` tasks are boxes, those that failed first, and the
// others one.
export function boxesOf(nodes, layer, isGrouped, opened, most) {
  const groups = new Map();
  nodes.forEach((node, index) => {
    const key = isGrouped ? `${layer[index]}\n${node[NAME]}` : node[TASK];
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(index);
  });
  const boxes = [], of = [];
  const add = (key, members, isGroup, group) => {
    for (const one of members) of[one] = boxes.length;
    boxes.push({ key, group, name: nodes[members[0]][NAME], layer: layer[members[0]], members, isGroup, needs: [] });
  };
  for (const [key, members] of groups) {
    if (members.length === 1) add(nodes[members[0]][TASK], members, false, "");
    else if (!opened.has(key)) add(key, members, true, key);
    else {
      const failed = members.filter((one) => nodes[one][STATE] === "failed");
      const shown = members.length > most ? [...failed, ...members.filter((one) => nodes[one][STATE] !== "failed")] : members;
      for (const one of shown.slice(0, most)) add(nodes[one][TASK], [one], false, key);
      if (shown.length > most) add(`${key}\nmore`, shown.slice(most), true, key);
    }
  }
  const needs = boxes.map(() => new Set());
  nodes.forEach((node, index) => { for (const one of node[NEEDS]) needs[of[index]].add(of[one]); });
  boxes.forEach((box, index) => { box.needs = [...needs[index]].filter((one) => one !== index); });
  return { boxes, of };
}

// The fullest layer stands first; to its right boxes are as near as there is room to the middle of what they depend on,
// to its left to the middle of what depends on them.
export function places(boxes, { wide, high, gapX, gapY }) {
  const layers = [], spots = [], followers = boxes.map(() => []);
  boxes.forEach((box, index) => {
    (layers[box.layer] ??= []).push(index);
    for (const one of box.needs) followers[one].push(index);
  });
  const place = (depth, neighbours) => {
    const wish = new Map(layers[depth].map((index) => {
      const near = neighbours(index).filter((one) => spots[one]);
      return [index, near.length ? near.reduce((sum, one) => sum + spots[one].y, 0) / near.length : EDGE];
    }));
    const ordered = layers[depth].sort((a, b) => wish.get(a) - wish.get(b));
    const tops = apart(ordered.map((index) => wish.get(index)), high + gapY);
    ordered.forEach((index, at) => { spots[index] = { x: EDGE + depth * (wide + gapX), y: tops[at] }; });
  };
  const fullest = layers.reduce((best, members, depth) => (members.length > layers[best].length ? depth : best), 0);
  for (let depth = fullest; depth < layers.length; depth++) place(depth, (index) => boxes[index].needs);
  for (let depth = fullest - 1; depth >= 0; depth--) place(depth, (index) => followers[index]);
  const top = spots.reduce((least, spot) => Math.min(least, spot.y), Infinity);
  for (const spot of spots) spot.y += EDGE - top;
  return spots;
}

// As near to these wishes, which rise, as numbers can be that are `step` apart at least: runs of those that would be nearer
// to each other stand around the mean of their wishes.
function apart(wishes, step) {
  const runs = [];  // {first, count, sum}: of the wishes, each less the room that those before it take
  wishes.forEach((wish, first) => {
    let run = { first, count: 1, sum: wish - first * step };
    while (runs.length && runs.at(-1).sum / runs.at(-1).count > run.sum / run.count) {
      const before = runs.pop();
      run = { first: before.first, count: before.count + run.count, sum: before.sum + run.sum };
    }
    runs.push(run);
  });
  return runs.flatMap(({ first, count, sum }) => Array.from({ length: count }, (_, at) => sum / count + (first + at) * step));
}

// The longest way through the graph, which no number of workers makes shorter, and for each task its slack: for so long
// it could have taken more without making that way longer. `seconds`: how long each task takes.
export function critical(nodes, seconds) {
  const before = nodes.map(() => 0), after = nodes.map(() => 0);
  nodes.forEach((node, index) => {
    for (const one of node[NEEDS]) if (one < index) before[index] = Math.max(before[index], before[one] + seconds[one]);
  });
  for (let index = nodes.length - 1; index >= 0; index--) {
    for (const one of nodes[index][NEEDS]) if (one < index) after[one] = Math.max(after[one], after[index] + seconds[index]);
  }
  const through = nodes.map((_, index) => before[index] + seconds[index] + after[index]);
  const length = through.reduce((most, one) => Math.max(most, one), 0);
  const path = [];
  const isLongest = (index) => through[index] >= length * (1 - 1e-9);
  let at = nodes.findIndex((_, index) => isLongest(index) && before[index] === 0);
  const followers = nodes.map(() => []);
  nodes.forEach((node, index) => { for (const one of node[NEEDS]) if (one < index) followers[one].push(index); });
  while (at !== undefined && at >= 0) {
    path.push(at);
    const end = before[at] + seconds[at];
    at = followers[at].find((one) => isLongest(one) && Math.abs(before[one] - end) <= length * 1e-9);
  }
  return { length, path, slack: through.map((one) => length - one) };
}
