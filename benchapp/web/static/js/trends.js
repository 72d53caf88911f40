// What the trends page draws beyond charts.js: marks instead of values, and ticks at the M measured.
// Loaded before charts.js, which makes the charts.
//   series: {marker: point style, line: false}   a mark without a line
//   series: {roof: true}                         a line of a scatter, without points
//   x: {ticks: [values]}                         ticks exactly there, as far as they fit
// A single version stands in the middle, and times are shown by the 24-hour clock.
"use strict";
Chart.register({
  id: "trends",
  beforeInit(chart) {
    const figure = chart.canvas.closest("[data-chart]");
    const spec = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
    spec.series.forEach((series, index) => {
      const dataset = chart.config.data.datasets[index];
      if (series.marker) Object.assign(dataset, { pointStyle: series.marker, pointRadius: 7, pointHoverRadius: 9, borderWidth: 2 });
      if (series.line === false) dataset.showLine = false;
      if (series.dash) Object.assign(dataset, { order: 1, pointStyle: "line" });
      if (spec.type === "scatter" && (series.roof || series.dash)) Object.assign(dataset, { showLine: true, order: 1, pointStyle: "line" });
    });
    const x = chart.config.options.scales.x;
    if (spec.x.type === "category") x.offset = true;
    if (spec.type === "scatter") x.ticks.maxRotation = 0;
    if (spec.x.type === "time") {
      Object.assign(x.time, { minUnit: "minute", displayFormats: { minute: "HH:mm", hour: "d MMM HH:mm", day: "d MMM yyyy", month: "MMM yyyy" } });
      x.ticks.maxTicksLimit = 12;
    }
    if (spec.x.ticks) {
      x.afterBuildTicks = (axis) => { axis.ticks = spec.x.ticks.map((value) => ({ value })); };
      x.ticks.callback = (value) => value.toLocaleString("en");
    }
  },
});
