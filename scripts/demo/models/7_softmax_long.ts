// Softmax regression by gradient descent: 120 steps, with a little weight decay.
const STEPS = 120;
const RATE = 0.5;
const DECAY = 0.0005;
export function train(features: number[][], species: number[], classes: number) {
  const n = features.length;
  const mean = features[0]!.map((_, j) => features.reduce((sum, row) => sum + row[j]!, 0) / n);
  const spread = mean.map((m, j) => Math.sqrt(features.reduce((sum, row) => sum + (row[j]! - m) ** 2, 0) / n));
  const scale = (row: number[]) => [1, ...row.map((value, j) => (value - mean[j]!) / spread[j]!)];
  const scaled = features.map(scale);
  const width = mean.length + 1;
  const weights = Array.from({ length: classes }, () => new Array<number>(width).fill(0));
  const chances = (row: number[]) => {
    const logits = weights.map((w) => w.reduce((sum, each, j) => sum + each * row[j]!, 0));
    const top = Math.max(...logits);
    const raw = logits.map((logit) => Math.exp(logit - top));
    const total = raw.reduce((a, b) => a + b, 0);
    return raw.map((each) => each / total);
  };
  for (let step = 0; step < STEPS; step++) {
    const slope = weights.map((w) => w.map((each, j) => j === 0 ? 0 : each * DECAY));
    scaled.forEach((row, i) => {
      chances(row).forEach((chance, c) => {
        const error = (chance - (species[i] === c ? 1 : 0)) / n;
        for (let j = 0; j < width; j++) slope[c]![j]! += error * row[j]!;
      });
    });
    weights.forEach((w, c) => w.forEach((_, j) => w[j]! -= RATE * slope[c]![j]!));
  }
  return (measured: number[]) => chances(scale(measured));
}
