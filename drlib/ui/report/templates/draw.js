"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
for (const [id, figure] of Object.entries(figures)) {
  const place = document.getElementById(id);
  const layout = { ...figure.layout, autosize: true };
  delete layout.width;
  Plotly.newPlot(place, figure.data, layout, { displaylogo: false, displayModeBar: false, responsive: true });
}
