package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// object is one rendered object.
type object struct {
	name string // kind/name
	body map[string]any
}

// checkKubernetes renders a kustomization, as `kubectl apply -k` does, and checks what comes out.
func checkKubernetes(dir string) ([]string, error) {
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsRootOnly
	rendered, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return []string{err.Error()}, nil
	}
	var all []object
	var findings []string
	for _, r := range rendered.Resources() {
		m, err := r.Map()
		if err != nil {
			return nil, err
		}
		body, err := asJSON(m)
		if err != nil {
			return nil, err
		}
		o := object{r.GetKind() + "/" + r.GetName(), body.(map[string]any)}
		all = append(all, o)
		schema, err := schemaOf(r.GetApiVersion(), r.GetKind())
		if err != nil {
			findings = append(findings, o.name+": "+err.Error())
			continue
		}
		findings = append(findings, o.invalid(schema)...)
	}
	findings = append(findings, checkReferences(all)...)
	slices.Sort(findings)
	return findings, nil
}

// invalid holds an object to its schema: one finding for each place.
func (o object) invalid(schema *jsonschema.Schema) (findings []string) {
	err := schema.Validate(o.body)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	var leaves func(e *jsonschema.ValidationError)
	leaves = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			at := "/" + strings.Join(e.InstanceLocation, "/")
			findings = append(findings, fmt.Sprintf("%s %s: %s", o.name, at, strings.SplitN(e.Error(), ": ", 2)[1]))
		}
		for _, c := range e.Causes {
			leaves(c)
		}
	}
	leaves(invalid)
	return findings
}

// checkReferences finds what refers to nothing, which no schema can tell: selectors without a pod,
// scalers without a workload, ports and settings without a name. Secrets are made by other hands.
func checkReferences(all []object) (findings []string) {
	names := map[string]bool{}
	var pods []object // the templates of workloads, under the workload's name
	for _, o := range all {
		names[o.name] = true
		if t, ok := child(o.body, "spec", "template").(map[string]any); ok {
			pods = append(pods, object{o.name, t})
		}
	}
	find := func(o object, format string, args ...any) {
		findings = append(findings, o.name+": "+fmt.Sprintf(format, args...))
	}
	for _, p := range pods {
		containers, _ := child(p.body, "spec", "containers").([]any)
		for _, c := range containers {
			from, _ := child(c, "envFrom").([]any)
			for _, f := range from {
				if name, ok := child(f, "configMapRef", "name").(string); ok && !names["ConfigMap/"+name] {
					find(p, "there is no ConfigMap %q", name)
				}
			}
			for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
				if port := child(c, probe, "httpGet", "port"); port != nil && !hasPort(p, port) {
					find(p, "%s: the pod has no port %v", probe, port)
				}
			}
		}
	}
	for _, o := range all {
		if ref, ok := child(o.body, "spec", "scaleTargetRef").(map[string]any); ok {
			kind, _ := ref["kind"].(string)
			if kind == "" {
				kind = "Deployment"
			}
			if name, _ := ref["name"].(string); !names[kind+"/"+name] {
				find(o, "there is no %s %q to scale", kind, name)
			}
		}
		selected := selects(o, pods)
		if selected != nil && len(selected) == 0 {
			find(o, "its selector matches no pod")
		}
		for _, port := range portsOf(o) {
			if !slices.ContainsFunc(selected, func(p object) bool { return hasPort(p, port) }) {
				find(o, "no pod that it selects has the port %v", port)
			}
		}
	}
	return findings
}

// selects is what of the pods an object selects; nil when it selects nothing by its nature.
func selects(o object, pods []object) []object {
	selector, ok := child(o.body, "spec", "selector").(map[string]any)
	switch kind, _, _ := strings.Cut(o.name, "/"); kind {
	case "Service":
		selector = map[string]any{"matchLabels": selector}
	case "NetworkPolicy":
		selector, ok = child(o.body, "spec", "podSelector").(map[string]any)
	case "PersistentVolumeClaim":
		return nil
	}
	if !ok {
		return nil
	}
	out := []object{}
	for _, p := range pods {
		own := p.name == o.name // a workload selects the pods of its own template, and of no other
		workload := child(o.body, "spec", "template") != nil
		if matches(selector, p) && (own || !workload) {
			out = append(out, p)
		}
	}
	return out
}

func matches(selector map[string]any, pod object) bool {
	labels, _ := child(pod.body, "metadata", "labels").(map[string]any)
	want, _ := selector["matchLabels"].(map[string]any)
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	expressions, _ := selector["matchExpressions"].([]any)
	for _, e := range expressions {
		key, _ := child(e, "key").(string)
		values, _ := child(e, "values").([]any)
		if in := slices.Contains(values, labels[key]); in != (child(e, "operator") == "In") {
			return false
		}
	}
	return true
}

// portsOf are the ports of pods that an object names or numbers.
func portsOf(o object) (out []any) {
	add := func(list any, field string) {
		items, _ := list.([]any)
		for _, i := range items {
			if port := child(i, field); port != nil {
				out = append(out, port)
			}
		}
	}
	switch kind, _, _ := strings.Cut(o.name, "/"); kind {
	case "Service":
		add(child(o.body, "spec", "ports"), "targetPort")
	case "PodMonitor":
		add(child(o.body, "spec", "podMetricsEndpoints"), "port")
	case "NetworkPolicy":
		rules, _ := child(o.body, "spec", "ingress").([]any)
		for _, r := range rules {
			add(child(r, "ports"), "port")
		}
	}
	return out
}

func hasPort(pod object, port any) bool {
	containers, _ := child(pod.body, "spec", "containers").([]any)
	for _, c := range containers {
		ports, _ := child(c, "ports").([]any)
		for _, p := range ports {
			if child(p, "name") == port || fmt.Sprint(child(p, "containerPort")) == fmt.Sprint(port) {
				return true
			}
		}
	}
	return false
}
