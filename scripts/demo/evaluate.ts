// How well does `model.ts` tell the species of a penguin from its four measurements?
// Repeated, stratified 10-fold cross-validation with a fixed seed; prints the metrics that sublet.toml names.
import { train } from "./model.ts";

const REPEATS = 12;
const FOLDS = 10;

interface Row {
  species: number;
  features: number[];
}

function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function load(): { rows: Row[]; names: string[] } {
  const [, ...lines] = Deno.readTextFileSync(new URL("./data/penguins.csv", import.meta.url)).trim().split("\n");
  const names: string[] = [];
  const rows: Row[] = [];
  for (const line of lines) {
    const [name = "", , ...cells] = line.split(",");
    const features = cells.slice(0, 4).map(Number);
    if (features.some((value) => !Number.isFinite(value))) continue;
    if (!names.includes(name)) names.push(name);
    rows.push({ species: names.indexOf(name), features });
  }
  return { rows, names };
}

/** A fold for each row: shuffled within its species, then dealt out in turn. */
function deal(rows: Row[], next: () => number): number[] {
  const order = rows.map((row, i) => ({ i, species: row.species, key: next() }));
  order.sort((a, b) => a.species - b.species || a.key - b.key);
  const folds = new Array<number>(rows.length).fill(0);
  order.forEach(({ i }, position) => folds[i] = position % FOLDS);
  return folds;
}

const { rows, names } = load();
const errors = new Array<number>(names.length).fill(0);
let loss = 0;
let tested = 0;
for (let repeat = 0; repeat < REPEATS; repeat++) {
  const folds = deal(rows, random(repeat + 1));
  for (let fold = 0; fold < FOLDS; fold++) {
    const training = rows.filter((_, i) => folds[i] !== fold);
    const predict = train(training.map((row) => row.features), training.map((row) => row.species), names.length);
    rows.forEach((row, i) => {
      if (folds[i] !== fold) return;
      const chances = predict(row.features);
      const best = chances.indexOf(Math.max(...chances));
      if (best !== row.species) errors[row.species] = (errors[row.species] ?? 0) + 1 / REPEATS;
      loss -= Math.log(Math.max(chances[row.species] ?? 0, 1e-6));
      tested++;
    });
  }
}

const wrong = errors.reduce((a, b) => a + b, 0);
console.log(`METRIC errors=${wrong}`);
console.log(`METRIC accuracy=${1 - wrong / rows.length}`);
console.log(`METRIC log_loss=${loss / tested}`);
const units = Deno.env.get("SUBLET_UNITS_FILE");
if (units !== undefined) {
  const byName = Object.fromEntries(names.map((name, i) => [name, errors[i] ?? 0]));
  Deno.writeTextFileSync(units, JSON.stringify({ errors: byName }));
}
