"use strict";
// report.html: the page counts by itself, from the data that stand in it.
const pageData = JSON.parse(document.getElementById("data").textContent);
showKey(document.getElementById("key"), pageData.palette, pageData.models[0].machine.banks);
const view = new View(pageData, enginesOf(pageData.models, (model, counted) => counted));
document.documentElement.dataset.ready = "1";
