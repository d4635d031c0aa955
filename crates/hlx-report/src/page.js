// Shows the values of the curves at the step that is pointed at. The page says the same without it, in its tables.
(function () {
  "use strict";
  var text = function (value) {
    var size = Math.abs(value);
    if (value === 0 || (size >= 1e-3 && size < 1e6)) {
      return Number(value.toPrecision(5)).toLocaleString("en", { maximumSignificantDigits: 5 });
    }
    return value.toExponential(3);
  };
  var nearest = function (points, step) {
    var low = 0, high = points.length / 2 - 1;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (points[2 * middle] < step) { low = middle + 1; } else { high = middle; }
    }
    if (low > 0 && step - points[2 * low - 2] < points[2 * low] - step) { low -= 1; }
    return low;
  };
  document.querySelectorAll(".chart svg").forEach(function (svg) {
    var area = svg.dataset.area.split(" ").map(Number), last = Number(svg.dataset.last);
    var curves = null, tip = null, line = svg.querySelector(".pointed");
    var leave = function () {
      if (tip) { tip.remove(); tip = null; line.classList.remove("on"); }
    };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("pointermove", function (event) {
      curves = curves || Array.from(svg.querySelectorAll(".curve")).map(function (path) {
        return { name: path.dataset.name, points: JSON.parse(path.dataset.points) };
      });
      var box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      var x = (event.clientX - box.left) * scale;
      var step = (x - area[0]) / (area[1] - area[0]) * last;
      if (step < 0 || step > last || !curves.length) { leave(); return; }
      if (!tip) {
        tip = document.createElement("div");
        tip.className = "tip";
        svg.parentNode.appendChild(tip);
        line.classList.add("on");
      }
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      tip.textContent = "";
      curves.forEach(function (curve) {
        var place = nearest(curve.points, step), row = document.createElement("div");
        var value = text(curve.points[2 * place + 1]) + (svg.dataset.unit ? " " + svg.dataset.unit : "");
        row.textContent = curve.name + ": " + value + " at step " + curve.points[2 * place].toLocaleString("en");
        tip.appendChild(row);
      });
      var around = svg.parentNode.getBoundingClientRect(), left = event.clientX - around.left + 14;
      if (left + tip.offsetWidth > around.width) {
        left = Math.max(4, event.clientX - around.left - tip.offsetWidth - 14);
      }
      tip.style.left = left + "px";
      tip.style.top = box.top - around.top + 8 + "px";
    });
  });
})();
