// Draws the plots, and hands out records unpacked where the browser can.
"use strict";

(async function draw() {
  const specifications = JSON.parse(document.getElementById("plots").textContent);
  const text = "var(--text-2)";
  const config = {
    background: "transparent",
    font: getComputedStyle(document.body).fontFamily,
    view: { stroke: null },
    axis: {
      labelColor: text, titleColor: text, gridColor: "var(--grid)",
      domainColor: "var(--line)", tickColor: "var(--line)",
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", titlePadding: 8, labelPadding: 6, tickCount: 6,
    },
    scale: { bandPaddingInner: 0.28, bandPaddingOuter: 0.14 },
  };
  let failed = 0;
  for (const [id, specification] of Object.entries(specifications)) {
    const place = document.getElementById(id);
    try {
      await window.vegaEmbed(place, specification, {
        mode: "vega-lite", renderer: "svg", actions: false, config, tooltip: { theme: "custom" },
      });
    } catch (error) {
      failed += 1;
      place.textContent = "This plot could not be drawn: " + error.message;
      console.error("plot " + id, error);
    }
  }
  document.documentElement.dataset.plots = failed ? "failed" : "ready";
})();

// Printers do not open what the reader has closed.
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) {
    details.open = true;
    details.dataset.opened = "for-print";
  }
});
window.addEventListener("afterprint", () => {
  for (const details of document.querySelectorAll("details[data-opened]")) {
    details.open = false;
    delete details.dataset.opened;
  }
});

// The links hold gzip; without this they still give the packed file.
if (typeof DecompressionStream === "function") {
  for (const link of document.querySelectorAll("a.record")) {
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      const packed = Uint8Array.from(atob(link.href.split(",")[1]), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      const url = URL.createObjectURL(new Blob([await new Response(stream).blob()], { type: "application/json" }));
      const save = document.createElement("a");
      save.href = url;
      save.download = link.download.replace(/\.gz$/, "");
      save.click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    });
  }
}
