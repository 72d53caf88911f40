// Names beside the points of a chart: series: {points: [{…, name: "64"}]}. Loaded before charts.js, which makes
// the charts. A name that would lie upon another one is left out; the tooltip and the table have them all.
"use strict";
Chart.register({
  id: "names",
  afterDatasetsDraw(chart) {
    const context = chart.ctx;
    const taken = [];
    context.save();
    context.font = `11px ${Chart.defaults.font.family}`;
    context.textBaseline = "middle";
    chart.data.datasets.forEach((dataset, index) => {
      if (!chart.isDatasetVisible(index)) return;
      const elements = chart.getDatasetMeta(index).data;
      dataset.data.forEach((point, at) => {
        if (!point.name || !elements[at]) return;
        const width = context.measureText(point.name).width;
        const right = elements[at].x + 8 + width <= chart.chartArea.right;
        const box = { x: right ? elements[at].x + 8 : elements[at].x - 8 - width, y: elements[at].y - 9, width };
        if (taken.some((other) => Math.abs(other.y - box.y) < 12 && box.x < other.x + other.width && other.x < box.x + box.width)) return;
        taken.push(box);
        context.fillStyle = dataset.borderColor;
        context.fillText(point.name, box.x, box.y);
      });
    });
    context.restore();
  },
});
