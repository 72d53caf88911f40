// What charts of the tile room draw beyond charts.js, before which it is loaded.
//   stacked: true            columns stand on one another
//   series: {fill: name}     solid, hatch, dots, lines or cross: layers of one colour are told apart
//   bands: [[label, n], …]   above the columns: the CUTLASS that n neighbouring releases bundle
//   untested: [index, …]     releases that nobody looked at: hatched from top to bottom
"use strict";
(() => {
  const TILE = 8;
  const STROKES = {
    hatch: (c) => { c.moveTo(-2, 10); c.lineTo(10, -2); c.moveTo(-2, 2); c.lineTo(2, -2); c.moveTo(6, 10); c.lineTo(10, 6); },
    lines: (c) => { c.moveTo(0, 2); c.lineTo(8, 2); c.moveTo(0, 6); c.lineTo(8, 6); },
    cross: (c) => { c.moveTo(0, 0); c.lineTo(8, 8); c.moveTo(8, 0); c.lineTo(0, 8); },
    dots: (c) => { for (const [x, y] of [[2, 2], [6, 6]]) { c.moveTo(x + 1.2, y); c.arc(x, y, 1.2, 0, 7); } },
  };
  function used(role) {
    const probe = document.createElement("span");
    probe.hidden = true;
    probe.style.color = `var(--${role})`;
    document.body.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  }
  function pattern(name, colour) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = TILE;
    const context = tile.getContext("2d");
    context.strokeStyle = colour;
    context.lineWidth = 1.4;
    context.beginPath();
    STROKES[name](context);
    context.stroke();
    return context.createPattern(tile, "repeat");
  }
  const specOf = (chart) => {
    const figure = chart.canvas.closest("[data-chart]");
    return figure ? JSON.parse(document.getElementById(figure.dataset.chart).textContent) : {};
  };

  Chart.register({
    id: "tilesHistory",
    beforeInit(chart) {
      const spec = specOf(chart);
      chart.$history = { bands: spec.bands || [], untested: spec.untested || [], ink: used("ink-2"), line: used("line-strong"), hatch: pattern("hatch", used("untested")) };
      const { scales, layout } = chart.config.options;
      chart.config.options.layout = { ...layout, padding: { top: spec.bands?.length ? 26 : 0 } };
      if (spec.x?.type === "category") {
        scales.x.offset = true;
        const upright = spec.x.labels.length > 12 ? 90 : 0; // so that every release has its name
        Object.assign(scales.x.ticks, { minRotation: upright, maxRotation: upright || 60, autoSkipPadding: upright ? 2 : 12 });
      }
      if (!spec.stacked) return;
      scales.x.stacked = scales.y.stacked = true;
      scales.x.grid.display = false;
      scales.y.ticks.precision = 0;
      chart.config.options.interaction = { mode: "index", intersect: false };
      chart.config.options.plugins.tooltip.filter = (item) => item.raw.y > 0;
      chart.config.options.plugins.tooltip.itemSort = (a, b) => b.datasetIndex - a.datasetIndex;
      spec.series.forEach((series, index) => {
        const dataset = chart.config.data.datasets[index];
        Object.assign(dataset, { borderWidth: 1, borderDash: [], barPercentage: 0.92, categoryPercentage: 0.92, pointStyle: "rect", maxBarThickness: 48 });
        if (series.fill && series.fill !== "solid") dataset.backgroundColor = pattern(series.fill, dataset.borderColor);
      });
    },
    beforeDatasetsDraw(chart) {
      const { untested, hatch } = chart.$history;
      const { x } = chart.scales;
      if (!untested.length) return;
      const { top, bottom } = chart.chartArea;
      const width = x.width / x.getLabels().length;
      chart.ctx.save();
      chart.ctx.fillStyle = hatch;
      for (const index of untested) chart.ctx.fillRect(x.getPixelForValue(index) - width / 2 + 1, top, width - 2, bottom - top);
      chart.ctx.restore();
    },
    afterDraw(chart) {
      const { bands, ink, line } = chart.$history;
      if (!bands.length) return;
      const { x } = chart.scales;
      const { top } = chart.chartArea;
      const width = x.width / x.getLabels().length;
      const context = chart.ctx;
      context.save();
      context.font = `11px ${Chart.defaults.font.family}`;
      context.textAlign = "center";
      let from = 0;
      for (const [label, span] of bands) {
        const left = x.getPixelForValue(from) - width / 2 + 1;
        const right = left + span * width - 2;
        context.fillStyle = line;
        context.fillRect(left, top - 8, right - left, 2);
        context.fillStyle = ink;
        const said = [`CUTLASS ${label}`, label].find((each) => context.measureText(each).width <= right - left);
        if (said) context.fillText(said, (left + right) / 2, top - 13);
        from += span;
      }
      context.restore();
    },
  });
})();
