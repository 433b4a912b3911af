// The nearest mean, with each measurement in units of its own spread: grams no longer drown millimetres.
export function train(features: number[][], species: number[], classes: number) {
  const n = features.length;
  const mean = features[0]!.map((_, j) => features.reduce((sum, row) => sum + row[j]!, 0) / n);
  const spread = mean.map((m, j) => Math.sqrt(features.reduce((sum, row) => sum + (row[j]! - m) ** 2, 0) / n));
  const scale = (row: number[]) => row.map((value, j) => (value - mean[j]!) / spread[j]!);
  const scaled = features.map(scale);
  const centres = Array.from({ length: classes }, (_, c) => {
    const own = scaled.filter((_, i) => species[i] === c);
    return own[0]!.map((_, j) => own.reduce((sum, row) => sum + row[j]!, 0) / own.length);
  });
  return (measured: number[]) => {
    const at = scale(measured);
    const near = centres.map((centre) => 1 / (1e-9 + centre.reduce((sum, m, j) => sum + (m - at[j]!) ** 2, 0)));
    const total = near.reduce((a, b) => a + b, 0);
    return near.map((each) => each / total);
  };
}
