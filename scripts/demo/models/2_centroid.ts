// The species whose mean measurements are nearest.
export function train(features: number[][], species: number[], classes: number) {
  const means = Array.from({ length: classes }, (_, c) => {
    const own = features.filter((_, i) => species[i] === c);
    return own[0]!.map((_, j) => own.reduce((sum, row) => sum + row[j]!, 0) / own.length);
  });
  return (measured: number[]) => {
    const near = means.map((mean) => 1 / (1e-9 + mean.reduce((sum, m, j) => sum + (m - measured[j]!) ** 2, 0)));
    const total = near.reduce((a, b) => a + b, 0);
    return near.map((each) => each / total);
  };
}
