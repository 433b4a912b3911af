// Gaussian naive Bayes.
export function train(features: number[][], species: number[], classes: number) {
  const models = Array.from({ length: classes }, (_, c) => {
    const own = features.filter((_, i) => species[i] === c);
    const mean = own[0]!.map((_, j) => own.reduce((sum, row) => sum + row[j]!, 0) / own.length);
    const variance = mean.map((m, j) => own.reduce((sum, row) => sum + (row[j]! - m) ** 2, 0) / own.length + 1e-9);
    return { prior: Math.log(own.length / features.length), mean, variance };
  });
  return (measured: number[]) => {
    const logs = models.map(({ prior, mean, variance }) =>
      measured.reduce(
        (sum, x, j) => sum - (x - mean[j]!) ** 2 / (2 * variance[j]!) - Math.log(2 * Math.PI * variance[j]!) / 2,
        prior,
      )
    );
    const top = Math.max(...logs);
    const raw = logs.map((log) => Math.exp(log - top));
    const total = raw.reduce((a, b) => a + b, 0);
    return raw.map((each) => each / total);
  };
}
