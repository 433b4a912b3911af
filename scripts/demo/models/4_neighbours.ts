// The vote of the seven nearest penguins.
const K = 7;
export function train(features: number[][], species: number[], classes: number) {
  const n = features.length;
  const mean = features[0]!.map((_, j) => features.reduce((sum, row) => sum + row[j]!, 0) / n);
  const spread = mean.map((m, j) => Math.sqrt(features.reduce((sum, row) => sum + (row[j]! - m) ** 2, 0) / n));
  const scale = (row: number[]) => row.map((value, j) => (value - mean[j]!) / spread[j]!);
  const scaled = features.map(scale);
  return (measured: number[]) => {
    const at = scale(measured);
    const near = scaled.map((row, i) => ({ i, d: row.reduce((sum, v, j) => sum + (v - at[j]!) ** 2, 0) }));
    near.sort((a, b) => a.d - b.d);
    const votes = new Array<number>(classes).fill(0.1);
    for (const { i } of near.slice(0, K)) votes[species[i]!]! += 1;
    const total = votes.reduce((a, b) => a + b, 0);
    return votes.map((vote) => vote / total);
  };
}
