// The bundle is an AMD module of a Jupyter widget: define(["@jupyter-widgets/base"], factory). The widgets it makes are
// never used here, so empty classes do for what they extend; of what it exports only vegaEmbed is wanted.
window.define = function (names, factory) {
  const widgets = new Proxy({}, { get: () => class {} });
  window.vegaEmbed = factory(widgets).vegaEmbed;
  delete window.define;
};
