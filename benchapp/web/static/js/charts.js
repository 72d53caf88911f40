// Charts drawn from a json_script element. Needs vendor/chart.umd.min.js, and the annotation plugin and the
// date adapter where a chart uses them, loaded before it with `defer`.
//
//   <figure data-chart="ID">            the figure; ID names the json_script element
//     <div class="chart"><canvas role="img" aria-label="…"></canvas></div>
//     <div class="scroll" data-chart-table hidden><table>…</table></div>
//     <button class="btn" data-chart-toggle aria-pressed="false">Table</button>
//   </figure>
//
// The JSON: {type: "line" | "scatter" | "bar",
//   x: {title, unit, type: "category" | "linear" | "logarithmic" | "time", labels: […], min, max},
//   y: {title, unit, type, min, max},
//   series: [{label, role, points: [{x, y, low, high, note, href, hollow, flagged}], dash, markers, band, roof: bool}],
//   lines: [{axis: "x" | "y", value, label, role}]}
// `role` is a colour role of css/tokens.css ("survived", "line-1" …); without one, series take line-1 … line-6.
// low/high draw an interval (quartiles), as a band between neighbours where the series says `band`; y null leaves a
// gap. A hollow point is filled with the ground, a flagged one ringed. `href` opens on a click on the point.
"use strict";
(() => {
  const MARKERS = ["circle", "rect", "triangle", "rectRot", "cross", "star"];
  const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [1, 2], [12, 4]];
  const charts = new Map();

  // Custom properties may hold light-dark(); only a used colour is resolved.
  function colours() {
    const probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
    const known = new Map();
    return {
      of(role) {
        if (!known.has(role)) {
          probe.style.color = "";
          probe.style.color = `var(--${role})`;
          known.set(role, getComputedStyle(probe).color);
        }
        return known.get(role);
      },
      done() { probe.remove(); },
    };
  }

  function withUnit(value, unit) {
    if (value === null || value === undefined) return "no value";
    const digits = Math.abs(value) >= 1000 ? 0 : 4;
    const shown = digits ? Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 })
      : Math.round(value).toLocaleString("en");
    return unit ? `${shown} ${unit}` : shown;
  }

  function axis(spec, colour, isX) {
    const options = {
      type: spec.type || (isX ? "category" : "linear"),
      title: { display: Boolean(spec.title), text: spec.unit ? `${spec.title} (${spec.unit})` : spec.title, color: colour.of("ink-2") },
      grid: { color: colour.of("line"), drawTicks: false },
      border: { color: colour.of("line-strong") },
      ticks: { color: colour.of("ink-2"), padding: 6, maxRotation: 60, autoSkipPadding: 12 },
    };
    if (spec.min !== undefined) options.min = spec.min;
    if (spec.max !== undefined) options.max = spec.max;
    if (isX && spec.labels) options.labels = spec.labels;
    if (options.type === "linear" && !isX) options.beginAtZero = spec.min === undefined;
    if (options.type === "logarithmic") options.ticks.callback = (value) => (/^[125]/.test(value.toExponential()) ? value.toLocaleString("en") : "");
    if (options.type === "time") options.time = { tooltipFormat: "yyyy-MM-dd HH:mm" };
    return options;
  }

  // The interval between neighbouring points, filled; gaps stay gaps.
  function fillBand(chart, dataset, meta) {
    const context = chart.ctx;
    const scale = chart.scales.y;
    const known = (at) => dataset.data[at]?.low !== undefined && dataset.data[at]?.low !== null && dataset.data[at].y !== null;
    context.save();
    context.fillStyle = dataset.borderColor;
    context.globalAlpha = 0.16;
    for (let at = 0; at + 1 < dataset.data.length; at += 1) {
      if (!known(at) || !known(at + 1)) continue;
      const [left, right] = [dataset.data[at], dataset.data[at + 1]];
      context.beginPath();
      context.moveTo(meta.data[at].x, scale.getPixelForValue(left.high));
      context.lineTo(meta.data[at + 1].x, scale.getPixelForValue(right.high));
      context.lineTo(meta.data[at + 1].x, scale.getPixelForValue(right.low));
      context.lineTo(meta.data[at].x, scale.getPixelForValue(left.low));
      context.fill();
    }
    context.restore();
  }

  // Quartiles as whiskers: thin, behind the points.
  const whiskers = {
    id: "whiskers",
    beforeDatasetsDraw(chart) {
      const context = chart.ctx;
      chart.data.datasets.forEach((dataset, index) => {
        if (!chart.isDatasetVisible(index)) return;
        const meta = chart.getDatasetMeta(index);
        if (dataset.band) fillBand(chart, dataset, meta);
        context.save();
        context.strokeStyle = dataset.borderColor;
        context.globalAlpha = 0.55;
        dataset.data.forEach((point, at) => {
          const element = meta.data[at];
          if (!element || point.low === undefined || point.low === null || point.high === null) return;
          const low = chart.scales.y.getPixelForValue(point.low);
          const high = chart.scales.y.getPixelForValue(point.high);
          context.beginPath();
          context.moveTo(element.x, low);
          context.lineTo(element.x, high);
          for (const end of [low, high]) {
            context.moveTo(element.x - 3, end);
            context.lineTo(element.x + 3, end);
          }
          context.stroke();
        });
        context.restore();
      });
    },
  };

  // Only where a point asks for it: one value serves all points otherwise.
  function pointLooks(series, stroke, colour) {
    if (!series.points.some((point) => point.hollow || point.flagged)) return {};
    return {
      pointBackgroundColor: series.points.map((point) => (point.hollow ? colour.of("surface") : stroke)),
      pointBorderColor: series.points.map((point) => (point.flagged ? colour.of("uncertain") : stroke)),
      pointBorderWidth: series.points.map((point) => (point.flagged ? 2 : 1.6)),
      pointRadius: series.points.map((point) => (point.flagged ? 5.5 : 3.5)),
    };
  }

  function dataset(series, index, colour) {
    const stroke = colour.of(series.role || `line-${(index % 6) + 1}`);
    return {
      label: series.label,
      data: series.points,
      borderColor: stroke,
      backgroundColor: stroke,
      borderWidth: 1.6,
      borderDash: series.dash ? [6, 4] : series.roof ? [] : DASHES[Math.floor(index / 6) % DASHES.length],
      pointStyle: MARKERS[index % MARKERS.length],
      pointRadius: series.markers === false ? 0 : 3.5,
      pointHoverRadius: 6,
      band: Boolean(series.band),
      ...pointLooks(series, stroke, colour),
      spanGaps: false,
      tension: 0,
    };
  }

  // A line in the legend looks like the line, not like its first point, which may be ringed or hollow.
  function legendLabels(chart) {
    return Chart.defaults.plugins.legend.labels.generateLabels(chart).map((label) => {
      const { borderColor } = chart.data.datasets[label.datasetIndex];
      return { ...label, fillStyle: borderColor, strokeStyle: borderColor, lineWidth: 1.6 };
    });
  }

  function annotations(lines, colour) {
    const drawn = {};
    (lines || []).forEach((line, index) => {
      const scale = line.axis === "x" ? "x" : "y";
      drawn[`line${index}`] = {
        type: "line",
        scaleID: scale,
        value: line.value,
        borderColor: colour.of(line.role || "ink-3"),
        borderWidth: 1.2,
        borderDash: [4, 4],
        label: {
          display: Boolean(line.label),
          content: line.label,
          position: scale === "y" ? "end" : "start",
          backgroundColor: colour.of("surface"),
          color: colour.of(line.role || "ink-2"),
          font: { size: 11, weight: "normal" },
          padding: 3,
        },
      };
    });
    return drawn;
  }

  function draw(figure) {
    const source = document.getElementById(figure.dataset.chart);
    const canvas = figure.querySelector("canvas");
    if (!source || !canvas) return;
    const spec = JSON.parse(source.textContent);
    const colour = colours();
    charts.get(figure)?.destroy();
    charts.set(figure, new Chart(canvas, {
      type: spec.type || "line",
      data: { labels: spec.x.labels, datasets: spec.series.map((series, index) => dataset(series, index, colour)) },
      plugins: [whiskers],
      options: {
        responsive: true,
        maintainAspectRatio: false,
        animation: false,
        interaction: { mode: "nearest", intersect: false },
        font: { family: getComputedStyle(document.body).fontFamily },
        scales: { x: axis(spec.x, colour, true), y: axis(spec.y, colour, false) },
        onClick: (event, hits) => {
          const point = hits.length && spec.series[hits[0].datasetIndex].points[hits[0].index];
          if (point && point.href) location.assign(point.href);
        },
        plugins: {
          legend: { position: "bottom", align: "start", labels: { color: colour.of("ink-2"), usePointStyle: true, boxHeight: 6, generateLabels: legendLabels } },
          annotation: { annotations: annotations(spec.lines, colour) },
          tooltip: {
            backgroundColor: colour.of("ink"), titleColor: colour.of("paper"), bodyColor: colour.of("paper"), footerColor: colour.of("paper"),
            callbacks: {
              label: (item) => `${item.dataset.label}: ${withUnit(item.raw.y, spec.y.unit)}`,
              footer: (items) => items.map((item) => item.raw.note).filter(Boolean),
            },
          },
        },
      },
    }));
    colour.done();
  }

  function toggle(button) {
    const figure = button.closest("[data-chart]");
    const table = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(table));
    button.textContent = table ? "Chart" : "Table";
    figure.querySelector("[data-chart-table]").hidden = !table;
    figure.querySelector(".chart").hidden = table;
    if (!table) charts.get(figure)?.resize();
  }

  const drawAll = () => document.querySelectorAll("[data-chart]").forEach(draw);
  document.addEventListener("DOMContentLoaded", () => {
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.font.size = 12;
    drawAll();
  });
  document.addEventListener("themechange", () => { if (charts.size) drawAll(); });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-chart-toggle]");
    if (button) toggle(button);
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    for (const figure of charts.keys()) {
      if (!figure.isConnected) { charts.get(figure).destroy(); charts.delete(figure); }
    }
    event.target.querySelectorAll?.("[data-chart]").forEach(draw);
  });
})();
