"""The page of a report: one file, no script, nothing from a network."""

__all__ = ['PAGE']

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #222; margin: 2em auto;
       max-width: 62em; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; margin: 1em 0; font-size: .9em; }
th, td { border-bottom: 1px solid #ddd; padding: .3em .8em; text-align: right;
         overflow-wrap: anywhere; }
th:first-child, td:first-child { text-align: left; }
tbody tr:first-child td { font-weight: 600; }
table.plain tbody tr:first-child td { font-weight: inherit; }
.wide { overflow-x: auto; }
.pictures { display: flex; flex-wrap: wrap; gap: 1em; }
.pictures img { width: 29em; max-width: 100%; height: auto; }
.warnings li { color: #8a3b00; }
pre { background: #f4f4f4; padding: .8em; overflow-x: auto; }
</style>
</head>
<body>
{% macro grid(table, kind) %}
<div class="wide"><table class="{{ kind }}">
<thead><tr>{% for name in table.names %}<th>{{ name }}</th>{% endfor %}</tr>
</thead>
<tbody>
{% for row in table.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endmacro %}
<h1>{{ title }}</h1>
<p>{{ summary }}</p>

<h2>Who finds the anomalies</h2>
<p>Nodes that neither trained nor validated. Trees are gradient-boosted
(scikit-learn), fitted on the same training nodes; where they lead, use them.
Rec@K: share of the anomalies among the K highest scores, K their number.</p>
{{ grid(ranking, '') }}
<div class="pictures">
{% for name in ('roc', 'precision and recall') %}
<img alt="{{ name }}" src="data:image/png;base64,{{ pictures[name] }}">
{% endfor %}
</div>

<h2>What the probabilities are worth</h2>
<p>Errors of the probabilities, better when lower; ECE over 15 bins of equal
mass. Were every probability exactly right, this many nodes would show an ECE
of {{ by_chance }} by chance.</p>
{{ grid(calibration, 'plain') }}

<h2>Decisions</h2>
<p>{{ decision }} On the held-out nodes:</p>
{{ grid(confusion, 'plain') }}
<p>Other thresholds, all chosen on validation nodes, and what they do on the
held-out nodes:</p>
{{ grid(thresholds, '') }}

<h2>Calibration and energy</h2>
<p>The energy tells how well a node fits to its neighbours and to what the
networks remember. It is no score: a kind of fraud that is frequent fits,
too.</p>
<div class="pictures">
{% for name in ('calibration', 'energy') %}
<img alt="{{ name }}" src="data:image/png;base64,{{ pictures[name] }}">
{% endfor %}
</div>

<h2>The data</h2>
{% if warnings %}
<ul class="warnings">
{% for text in warnings %}<li>{{ text }}</li>
{% endfor %}
</ul>
{% endif %}
{{ grid(counts, 'plain') }}
{% if relations.rows %}
{{ grid(relations, 'plain') }}
{% endif %}
{{ grid(columns, 'plain') }}
{% if notes %}
<ul>
{% for text in notes %}<li>{{ text }}</li>
{% endfor %}
</ul>
{% endif %}

<h2>How it was made</h2>
<pre>{{ commands }}</pre>
{{ grid(settings, 'plain') }}
<p>{{ versions }}</p>
</body>
</html>
"""
